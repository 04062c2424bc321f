"""Causes of wrong answers, facts that doctors never ask for, and beliefs during the conversation."""
