"""How far counting is: seals, marks, and what audits ask of them."""
