"""A stand-in for NIXL: moves bytes between two processes through a socket, and fails on request.

NIXL_STANDIN_FAULT names the fault of this process; NIXL_STANDIN_LOG is a recorded UCX log to print at first use.
"""
