"""Branches of conversations: the family as a tree, two of them beside each other, and the form to fork one."""
