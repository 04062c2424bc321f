"""Consultation (Liao et al., arXiv 2309.02077): the doctor takes the history, a solver answers the task."""
