"""GRAPE: the traces of a session give a publisher's costs at every broker."""
