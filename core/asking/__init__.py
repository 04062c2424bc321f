"""One question to a model: the parts of a prompt, the call, the replies that are paid for, parsing and repair."""
