"""The evaluation of DYNATOPS: topic trees under subscriptions that change, slot by slot."""
