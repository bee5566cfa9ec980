"""From runs to one HTML page that opens offline."""
