"""The evaluation of OctopiA: delays and load while a publisher's links are congested."""
