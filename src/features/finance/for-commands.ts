import { InvalidArgumentError } from 'commander'
import { type Moment, momentForms, parseMoment } from './input-forms.ts'

export { bookForms, type Moment, momentForms } from './input-forms.ts'

/** Parses an option that names a moment. */
export const momentOption = (text: string): Moment => {
  const moment = parseMoment(text)
  if (moment === null) throw new InvalidArgumentError(`It must be ${momentForms}.`)
  return moment
}
