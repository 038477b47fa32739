/**
 * Does work on all items at once. Where that fails, on each half of them, and so on, until each item at fault fails alone.
 * @param isOfAll whether an error would meet any other items as well, such as an outage
 * @returns the items that failed alone, with their errors
 * @throws an error that is of all; part of the work may be done by then
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
