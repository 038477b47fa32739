export { createLineSets } from './line-sets.ts'
export { createIsAllowed } from './whitelist-commitments.ts'
