"""What is measured in the relocation study's runs, and kept of them."""
