/**
 * Sends a form that counts once (it has a field `form`) only once. A second press before the answer would replace the
 * page that shows the result of the first one, such as a new API key. Every page of a signed-in person loads it.
 */
const sentForms = new Set<HTMLFormElement>()

document.addEventListener('submit', (event) => {
  const { target: form, submitter, defaultPrevented } = event
  const reads = submitter instanceof HTMLButtonElement && submitter.formMethod === 'get'
  if (defaultPrevented || reads || !(form instanceof HTMLFormElement)) return
  if (form.elements.namedItem('form') === null) return
  if (sentForms.has(form)) event.preventDefault()
  // Browsers from before 2026 do not report Stop, so the form could not be sent again.
  else if (window.navigation) sentForms.add(form)
})

// The user pressed Stop during a submission.
window.navigation?.addEventListener('navigateerror', () => sentForms.clear())
// Back may show this page in its last state.
window.addEventListener('pageshow', () => sentForms.clear())

/**
 * Stores what is typed into a form, for the case that the session has ended or a new confirmation is needed: after
 * the sign-in in the same tab, the page of the form has it again. Hidden fields, passwords and files are not stored.
 */
const storageKey = 'typed'
const isSignIn = (path: string): boolean => /^\/console\/(?:sign-in|confirm)/.test(path)

type Control = HTMLInputElement | HTMLSelectElement | HTMLTextAreaElement

const controlsOf = (form: HTMLFormElement): readonly Control[] =>
  [...form.elements].filter(
    (each): each is Control =>
      each instanceof HTMLSelectElement ||
      (each instanceof HTMLTextAreaElement && !each.readOnly) ||
      (each instanceof HTMLInputElement && !['hidden', 'password', 'file'].includes(each.type)),
  )

// A field of the form may have the name `method` or `action`, which hides the property.
const actionOf = (form: HTMLFormElement): string | null =>
  form.getAttribute('method') === 'post' ? (form.getAttribute('action') ?? location.pathname) : null

const isTicked = (control: Control): boolean => control instanceof HTMLInputElement && control.checked

if (!isSignIn(location.pathname)) {
  document.addEventListener('submit', ({ target: form }) => {
    if (!(form instanceof HTMLFormElement)) return
    const action = actionOf(form)
    if (action === null) return
    const values = controlsOf(form).map((control) => [control.value, isTicked(control)] as const)
    sessionStorage.setItem(storageKey, JSON.stringify({ action, values }))
  })
  const stored = sessionStorage.getItem(storageKey)
  sessionStorage.removeItem(storageKey)
  if (stored !== null && document.referrer !== '' && isSignIn(new URL(document.referrer).pathname)) {
    const { action, values } = JSON.parse(stored) as {
      action: string
      values: readonly (readonly [value: string, ticked: boolean])[]
    }
    const form = [...document.forms].find((each) => actionOf(each) === action)
    for (const [at, control] of (form ? controlsOf(form) : []).entries()) {
      const [value, ticked] = values[at] ?? [control.value, isTicked(control)]
      if (control instanceof HTMLInputElement && /checkbox|radio/.test(control.type)) control.checked = ticked
      else control.value = value
    }
    form?.dispatchEvent(new Event('input', { bubbles: true }))
  }
}
