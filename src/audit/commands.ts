import { registerDeliver, registerWitness } from './external-seals/witness-commands.ts'
import { registerVerify } from './register-verify.ts'
import { registerViolations } from './register-violations.ts'
import { registerSeals } from './seals/seal-commands.ts'

export const commands = [
  registerSeals,
  registerDeliver,
  registerWitness,
  registerVerify,
  registerViolations,
] as const
