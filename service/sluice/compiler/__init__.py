"""What is kept of compiled kernels: their code on disk, and the stamps that say when the code is out of date."""
