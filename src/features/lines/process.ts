export { createLineSets } from './line-sets.ts'
