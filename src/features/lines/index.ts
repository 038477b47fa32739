export { minPrefixLength } from './whitelist.ts'
export {
  adoptWhitelists,
  createIsAllowed,
  type EntryRow,
  entryColumns,
  type IsAllowed,
} from './whitelist-commitments.ts'
