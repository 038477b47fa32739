/**
 * Exchanges the parts of a page with `data-live` for those of the same id, from the page asked for again: for a form with
 * `data-asks`, while somebody types; around a part with `data-runs`, every two seconds for as long as it has that. Without
 * script the form's button and a link do that.
 *
 * From a change of the form until its answer, the parts say something else than the fields. The form cannot be sent so long,
 * except by a button with `formmethod="get"`, which changes nothing. A form that counts once (it has a field `form`) can be
 * sent once: its parts stay as they were sent until the next page comes. When that page does not come, because somebody
 * pressed Stop, the form can be sent again. It keeps its key: the service may have done what was sent, and does it once.
 */
const waitMs = 250
const everyMs = 2_000

const focusable = 'a[href], button, input:not([type=hidden]), select, textarea, [tabindex]'

/** Puts a fresh part in the place of an old one. What has the focus in it keeps it, by its id or else by its place. */
const replacePart = (old: Element, fresh: Element): void => {
  const focused = document.activeElement
  const place = old.contains(focused) ? [...old.querySelectorAll(focusable)].indexOf(focused!) : -1
  old.replaceWith(fresh)
  if (place === -1) return
  const byId = focused!.id === '' ? null : fresh.querySelector(`#${CSS.escape(focused!.id)}`)
  const next = byId ?? fresh.querySelectorAll(focusable)[place]
  if (next instanceof HTMLElement) next.focus({ preventScroll: true })
}

class LiveParts extends HTMLElement {
  #timer = 0

  connectedCallback(): void {
    const form = this.querySelector<HTMLFormElement>('form[data-asks]')
    let asked: XMLHttpRequest | null = null
    let pending = false
    let sent = false
    /** The key of a form that was stopped. */
    let stoppedKey: string | null = null

    const setBusy = (busy: boolean): void => {
      if (busy) this.setAttribute('aria-busy', 'true')
      else this.removeAttribute('aria-busy')
    }
    const showState = (): void => {
      setBusy(pending || sent)
      // `disabled` would take the focus away, and Tab would pass the button.
      for (const button of form?.querySelectorAll('button') ?? [])
        if ((pending || sent) && button.formMethod !== 'get') button.setAttribute('aria-disabled', 'true')
        else button.removeAttribute('aria-disabled')
    }
    const setPending = (value: boolean): void => {
      pending = value
      showState()
    }
    /** The key of a form that counts once; null for any other. */
    const keyField = (): HTMLInputElement | null => {
      const field = form?.elements.namedItem('form')
      return field instanceof HTMLInputElement ? field : null
    }
    /** Whether the page still has the parts: after the end of a session it is another one. */
    const exchange = (page: Document): boolean => {
      let found = false
      for (const old of this.querySelectorAll('[data-live]')) {
        const fresh = page.getElementById(old.id)
        if (!fresh) continue
        found = true
        replacePart(old, document.importNode(fresh, true))
      }
      const key = keyField()
      if (key && stoppedKey !== null) key.value = stoppedKey
      return found
    }
    /** @param then gets whether to ask again: not after an answer without the parts, unless it is one of an outage */
    const ask = (url: string, then: (again: boolean) => void): void => {
      const request = new XMLHttpRequest()
      asked = request
      request.open('GET', url)
      request.responseType = 'document'
      // Fields that cannot be priced are answered 400, with parts that say so.
      request.onload = () => {
        const found = request.responseXML !== null && exchange(request.responseXML)
        then(found || request.status >= 429)
      }
      request.onerror = () => then(true)
      request.send()
    }
    const after = (ms: number, work: () => void): void => {
      clearTimeout(this.#timer)
      this.#timer = window.setTimeout(work, ms)
    }
    form?.addEventListener('input', () => {
      if (sent) return
      // An answer for the fields as they were must not replace what is typed now.
      asked?.abort()
      setPending(true)
      after(waitMs, () => {
        const query = new URLSearchParams(
          [...new FormData(form)].map(([name, value]) => [name, String(value)]),
        )
        // After a failure the form can be sent as without script: the service refuses another price than the one shown.
        ask(`${form.action}?${query}`, () => setPending(false))
      })
    })
    form?.addEventListener('submit', (event) => {
      const { submitter } = event
      const reads = submitter instanceof HTMLButtonElement && submitter.formMethod === 'get'
      if (reads) return
      if (pending || sent) return event.preventDefault()
      sent = keyField() !== null
      showState()
    })
    // Somebody pressed Stop while the form was on its way. Browsers of before 2026 do not report that.
    window.navigation?.addEventListener('navigateerror', () => {
      if (!sent) return
      sent = false
      stoppedKey = keyField()?.value ?? null
      showState()
    })
    // Back may show this page as it was left, without loading it: what was sent is over.
    window.addEventListener('pageshow', ({ persisted }) => {
      if (!persisted) return
      sent = false
      stoppedKey = null
      showState()
    })
    const follow = (): void => {
      if (this.querySelector('[data-runs]'))
        after(everyMs, () => {
          setBusy(true)
          ask(location.href, (again) => {
            setBusy(false)
            if (again) follow()
          })
        })
    }
    follow()
  }

  disconnectedCallback(): void {
    clearTimeout(this.#timer)
  }
}

customElements.define('live-parts', LiveParts)
