import { ProblemError } from "../api.js";
import { byField, type Faults } from "../rules/faults.js";

/** The faults that an error names, by field; what lies below `prefix` is named from there on. */
export function faultsOf(error: unknown, prefix = ""): Faults {
  const problem = error instanceof ProblemError ? error.problem : undefined;
  return byField(problem?.invalid_parameters ?? [], prefix);
}

export { faultAt, together, unplaced, type Faults } from "../rules/faults.js";
