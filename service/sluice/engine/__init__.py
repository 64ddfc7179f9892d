"""The window engine: a pure function of state and events. docs/architecture.md says where each thing is."""
