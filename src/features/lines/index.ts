export { minPrefixLength } from './whitelist.ts'
