"""Protocols: in which order agents speak. A framework is one module here that yields events."""
