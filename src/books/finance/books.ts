import { type BringUpContext, bringUp } from '../../../projections/engine/bring-up.ts'
import { books } from '../../../projections/groups.ts'
import type { ProgressBar } from '../../platform/cli/progress-bar.ts'

/** Brings the journal up to the log's head and gives that position, as `bringUp` does. */
export const bringBooksUp = (context: BringUpContext, bar: ProgressBar): Promise<number> =>
  bringUp(context, { group: books, called: 'the journal' }, bar)
