//! locomo
