"""The models that can speak: one streaming interface, its clients, the local server and the registry of names.

Import from the modules: ``core.models.registry`` opens models by name, ``core.models.base`` holds the vocabulary.
"""
