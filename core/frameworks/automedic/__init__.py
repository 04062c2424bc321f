"""AutoMedic (Oh, Park, Kim, arXiv 2512.10195): the doctor asks patient and clinical staff by tags."""
