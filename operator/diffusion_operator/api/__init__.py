"""The resource `DiffusionModel` as types, and what is generated from them: CRD, reference pages."""
