"""The frameworks: in which order agents speak. A framework is one folder here that yields events."""
