//! The transport variables: who reads them, what they take, what they really do.
