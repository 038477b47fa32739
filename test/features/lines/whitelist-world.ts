import type pg from 'pg'
import {
  createEntryIds,
  createWhitelist,
  type Whitelist,
  type WhitelistEntry,
} from '../../../src/features/lines/whitelist.ts'
import { createWhitelistRemovals } from '../../../src/features/lines/whitelist-commitments.ts'
import type { CommandRunner } from '../../../src/platform/commands/command.ts'
import { masterKey } from '../../../src/platform/vault/keys.ts'

export type { WhitelistEntry }

/** The whitelists of a real database and log. */
export const whitelistOf = (world: { readonly pool: pg.Pool; readonly runner: CommandRunner }): Whitelist =>
  createWhitelist({
    ...world,
    clock: Date.now,
    removals: createWhitelistRemovals(world),
    entryIdOf: createEntryIds(masterKey(Buffer.alloc(32, 3))),
  })
