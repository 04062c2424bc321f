"""The formats that can be read, one module each; a module's ``FORMAT`` is all that others use of it."""
