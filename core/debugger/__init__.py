"""The case debugger: a trial taken apart step by step, and steps run again with something changed."""
