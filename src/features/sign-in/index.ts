export type { People } from './people.ts'
