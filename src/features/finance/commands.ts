import { registerExplain } from './explain-command.ts'
import { registerLedger } from './finance-commands.ts'
import { registerPeriods } from './period-commands.ts'
import { registerReplay } from './replay-command.ts'
import { registerFinanceTokens } from './token-commands.ts'

export const commands = [
  registerLedger,
  registerReplay,
  registerExplain,
  registerFinanceTokens,
  registerPeriods,
] as const
