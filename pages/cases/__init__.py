"""The stored data sets: their cases with findings and profiles, suitability, import, deletion."""
