import type { ReadModelGroup } from '../../projections/engine/read-model.ts'
import { followers } from '../../projections/groups.ts'
import { lawGroup } from '../books/audit/laws.ts'

/** All that a server fills from the log. @param laws whether it checks them (FAREBOX_LAWS) */
export const groupsOf = ({ laws }: { readonly laws: boolean }): readonly ReadModelGroup[] =>
  laws ? [...followers, lawGroup] : followers
