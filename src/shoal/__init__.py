"""shoal: a publish/subscribe broker network that filters on content and rearranges itself."""
