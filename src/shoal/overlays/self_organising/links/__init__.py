"""A tree with changing links: membership of links, healing, and durable memory."""
