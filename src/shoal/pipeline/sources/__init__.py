"""From files of any kind to publications, with a reason for each row that is none."""
