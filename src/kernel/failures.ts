/**
 * Processes all items at once. After a failure it processes each half separately, and so on, until each faulty item
 * fails alone.
 * @param isOfAll whether an error would affect any other items, too, such as an outage
 * @returns the items that failed alone, with their errors
 * @throws an error for which `isOfAll` is true; part of the items may be processed by then
 */
export const isolateFailures = async <Item>(
  items: readonly Item[],
  work: (items: readonly Item[]) => Promise<void>,
  isOfAll: (error: unknown) => boolean,
): Promise<ReadonlyMap<Item, unknown>> => {
  const failed = new Map<Item, unknown>()
  const workOn = async (part: readonly Item[]): Promise<void> => {
    try {
      await work(part)
    } catch (error) {
      if (isOfAll(error)) throw error
      if (part.length === 1) return void failed.set(part[0]!, error)
      const middle = Math.ceil(part.length / 2)
      await workOn(part.slice(0, middle))
      await workOn(part.slice(middle))
    }
  }
  if (items.length > 0) await workOn(items)
  return failed
}

/** A thrown value as an Error: itself, or an Error with its text. */
export const asError = (thrown: unknown): Error =>
  thrown instanceof Error ? thrown : new Error(String(thrown))
