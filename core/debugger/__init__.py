"""The case debugger: a trial step by step, and branches that begin with a step."""
