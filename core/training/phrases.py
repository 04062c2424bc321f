"""What the doctor of a golden dialogue says: the prompt it works under, ways to ask about a key, ways to close.

Every question is made of a key and of words that name nothing, so that a reference patient who tells items understands
it: what a model has learnt here it can use in a campaign.
"""

from __future__ import annotations

SYSTEM = """\
You are a doctor, and a patient has come to you for help. Take the history: one short question in each message, about
one point, and never the same point twice. When you know what you need, write one last message without a question: what
stands out, in a sentence or two, and then, on a line of its own, **Final Diagnosis:** with one single diagnosis."""
"""The system prompt of every dialogue, the same for all, so that it tells nothing of the case."""

QUESTIONS = (
    "What about {key}?",
    "Can you tell me about {key}?",
    "Could you tell me something about {key}?",
    "What can you tell me about {key}?",
    "What can you say about {key}?",
    "Could you please say something about {key}?",
    "Would you please tell me about {key}?",
    "How would you describe {key}?",
    "Is there something you can say about {key}?",
    "What would you say about {key}?",
)

SUMMARIES = (
    "To sum up what you have told me: {points}.",
    "What stands out is this: {points}.",
    "These are the points that matter most: {points}.",
    "Let me put it together: {points}.",
)

CONCLUSIONS = (
    "Taken together, this fits {answer} best.",
    "All in all this points to {answer}.",
    "The likeliest explanation for this is {answer}.",
    "I think that {answer} explains this best.",
)

DIAGNOSIS = "**Final Diagnosis:** {answer}"
"""The last line: by which a dialogue is known to be over (``core.frameworks.conversation``)."""
