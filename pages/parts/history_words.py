"""Words of the History taking page: measures, the published doctors and data sets, and the rules of the virtues."""

from typing import Final

MEASURE: Final[dict[str, tuple[str, str]]] = {
    "patient_recall": ("Patient recall", "Share of the words of the case’s items that the patient said: what was "
                       "uncovered (ROUGE-1 recall against the items’ values, words stemmed)."),
    "patient_precision": ("Patient precision", "Share of the patient’s words that are words of the items’ values."),
    "patient_f1": ("Patient F1", "Harmonic mean of the patient’s recall and precision in each conversation."),
    "patient_words": ("Patient words", "Mean length of the patient’s messages in words."),
    "doctor_recall": ("Doctor recall", "Share of the words of the items’ keys that the doctor’s questions hold."),
    "doctor_precision": ("Doctor precision", "Share of the words of the doctor’s questions that are words of keys."),
    "doctor_f1": ("Doctor F1", "Harmonic mean of the doctor’s recall and precision in each conversation."),
    "doctor_words": ("Doctor words", "Mean length of the doctor’s questions in words; greeting and closing message "
                     "are no questions."),
    "doctor_turns": ("Doctor turns", "The doctor’s messages after the greeting, a closing one included."),
    "queries": ("Questions", "The doctor’s questions: without greeting and closing message."),
    "accuracy": ("Accuracy", "Share of right answers to the case’s question with its choices, given after the "
                 "conversation: by the doctor, or by a separate solver where there is one."),
    "repetition_1": ("Repetition R-1", "Mean ROUGE-1 F1 between the questions of one conversation, pair by pair; lower "
                     "is more varied. Conversations with fewer than two questions have none."),
    "repetition_2": ("Repetition R-2", "The same with ROUGE-2: pairs of words."),
    "repetition_l": ("Repetition R-L", "The same with ROUGE-L: the longest common sequence of words."),
    "honesty": ("Honesty", "Share of the patient’s statements that the case supports."),
    "strictness": ("Strictness", "Share of the patient’s replies that bring nothing that was not asked for."),
    "colloquialism": ("Colloquialism", "Share of the patient’s words that are everyday words."),
}  # fmt: skip
"""Measure → its name and what it means, in the order of tables."""
VIRTUES = ("honesty", "strictness", "colloquialism")
PUBLISHED_SETS = {"medqa": "MedQA", "qmax": "QMax", "sample_exam": "Sample exam"}
PUBLISHED_DOCTORS = {
    "upper_bound": "Upper bound", "lower_bound": "Lower bound", "chatgpt_long": "ChatGPT, long prompt",
    "chatgpt_short": "ChatGPT, short prompt", "vicuna": "Vicuna", "vicuna_ft": "Vicuna, fine-tuned",
}  # fmt: skip
PUBLISHED_MEASURES = {
    "patient_recall": "patient_recall", "patient_precision": "patient_precision", "patient_f1": "patient_f1",
    "patient_len": "patient_words", "doctor_recall": "doctor_recall", "doctor_precision": "doctor_precision",
    "doctor_f1": "doctor_f1", "doctor_len": "doctor_words", "turn": "doctor_turns", "accuracy": "accuracy",
    "rouge_1": "repetition_1", "rouge_2": "repetition_2", "rouge_l": "repetition_l",
}  # fmt: skip
"""Label of a published metric → our measure."""
VIRTUE_RULES = (
    "- **Honesty.** A statement is a sentence of the patient that says something (no courtesy, no “I don’t know”); a "
    "bare yes or no states what was asked. It is supported where the case holds at least half of its telling words.\n"
    "- **Strictness.** Of the replies to narrow questions, the share that brings no item first that the question did "
    "not ask for: the question shares a telling word with the item. Replies to open questions (“anything else?”) do "
    "not count.\n"
    "- **Colloquialism.** The share of the patient’s words, numbers aside, that are no medical terms: neither on a "
    "short list nor with a technical ending such as -itis.\n\n"
    "Rules on words cannot judge meaning: a free paraphrase looks unsupported. They compare patients on average; for "
    "one conversation open its facts ledger under **Cases**."
)
