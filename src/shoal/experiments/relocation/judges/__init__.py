"""The judges of the relocation paper's claims, by the compared settings."""
