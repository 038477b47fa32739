/**
 * A place for small files that are written once and never changed. What somebody else wrote under a name is left as it
 * is and told.
 */
export type Store = {
  /**
   * `stored`: the place has it now, byte for byte, whoever put it there. `other`: under that name it has something else.
   * @throws StoreFailed
   */
  put(name: string, text: string): Promise<'stored' | 'other'>
  /** Null where nothing has that name. @throws StoreFailed */
  get(name: string): Promise<string | null>
  close(): Promise<void>
}

/** The place could not be reached or said no: worth another try. The message holds no secret and no text of the other side. */
export class StoreFailed extends Error {
  override readonly name = 'StoreFailed'
}

/** No file of a store is longer. */
export const maxFileBytes = 65_536
