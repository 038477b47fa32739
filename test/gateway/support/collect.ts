import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

/** Frees what nobody holds, so that what is held can be measured. */
export const collect = (): void => {
  setFlagsFromString('--expose-gc')
  ;(runInNewContext('gc') as () => void)()
}
