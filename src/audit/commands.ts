import { registerDeliver, registerWitness } from './external-seals/witness-commands.ts'
import { registerSeals } from './seals/seal-commands.ts'
import { registerVerify } from './verify-command.ts'
import { registerViolations } from './violation-commands.ts'

export const commands = [
  registerSeals,
  registerDeliver,
  registerWitness,
  registerVerify,
  registerViolations,
] as const
