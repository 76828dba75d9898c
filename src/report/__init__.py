"""Write reports of sweeps: figures, tables, and a page that presents them."""
