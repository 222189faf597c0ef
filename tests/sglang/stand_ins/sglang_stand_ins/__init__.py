"""Test-only: what SGLang 0.5.21 computes with Triton and CUDA kernels, in plain torch.

Slow and simple. Shapes and meanings are those of the functions that are replaced; arguments for speculative decoding
are not implemented, and refused where they arrive.
"""
