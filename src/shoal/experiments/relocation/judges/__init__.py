"""The judges of the relocation paper's claims, by what they compare."""
