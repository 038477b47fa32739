/**
 * The form of the proxy checker, with results as they arrive. The typed lines are sent to the operation of the API,
 * whose events fill a table. Without script, the form is sent, and the next page has all results.
 */
type Result = {
  proxy: string
  alive: boolean
  protocols: string[]
  anonymity: string | null
  exit_ip: string | null
  country_code: string | null
  asn: number | null
  latency_ms: number | null
  error: string | null
  detail: string | null
}

const cellOf = (...content: (string | Node)[]): HTMLTableCellElement => {
  const cell = document.createElement('td')
  cell.append(...content)
  return cell
}

const rowOf = (result: Result): HTMLTableRowElement => {
  const row = document.createElement('tr')
  const name = document.createElement('th')
  name.scope = 'row'
  const code = document.createElement('code')
  code.className = 'id'
  code.textContent = result.proxy
  name.append(code)
  const state = document.createElement('span')
  state.className = result.alive ? 'state good' : 'state bad'
  state.textContent = result.alive ? 'works' : (result.detail ?? result.error ?? 'does not work')
  const where: (string | Node)[] = [result.country_code?.toUpperCase() ?? '']
  if (result.asn !== null) {
    const link = document.createElement('a')
    link.href = `/networks/AS${result.asn}`
    link.textContent = `AS${result.asn}`
    where.push(' ', link)
  }
  const latencyCell = cellOf(result.latency_ms === null ? '' : String(result.latency_ms))
  latencyCell.className = 'number'
  row.append(
    name,
    cellOf(state),
    cellOf(result.protocols.join(', ')),
    cellOf(result.anonymity ?? ''),
    cellOf(result.exit_ip ?? ''),
    cellOf(...where),
    latencyCell,
  )
  return row
}

class ProxyChecks extends HTMLElement {
  connectedCallback(): void {
    const form = this.querySelector('form')
    const typed = this.querySelector('textarea')
    const button = this.querySelector('button')
    const live = this.querySelector<HTMLElement>('[data-live]')
    const statusElement = live?.querySelector('p')
    const rows = live?.querySelector('tbody')
    if (!form || !typed || !button || !live || !statusElement || !rows) return
    form.addEventListener('submit', (event) => {
      const proxies = typed.value.split(/\s+/).filter((line) => line !== '')
      // The page shows the problem next to the field.
      if (proxies.length === 0) return
      event.preventDefault()
      button.disabled = true
      live.hidden = false
      rows.replaceChildren()
      statusElement.classList.remove('bad')
      statusElement.textContent = `0 of ${proxies.length} checked`
      let workingCount = 0
      const on = (name: string, data: string): void => {
        const eventData = JSON.parse(data)
        if (name === 'error') throw new Error(eventData.error)
        if (name !== 'result') return
        rows.append(rowOf(eventData))
        if (eventData.alive) workingCount += 1
        statusElement.textContent = `${rows.children.length} of ${proxies.length} checked, ${workingCount} ${workingCount === 1 ? 'works' : 'work'}`
      }
      this.check(proxies, on)
        .catch((error: Error) => {
          statusElement.classList.add('bad')
          statusElement.textContent = error.message
        })
        .finally(() => {
          button.disabled = false
        })
    })
  }

  /** Calls `on` for each event of the answer. Rejects with the message of a refusal. */
  async check(proxies: string[], on: (name: string, data: string) => void): Promise<void> {
    const answer = await fetch('/api/proxy-check', {
      method: 'POST',
      headers: { 'Content-Type': 'application/json', Accept: 'text/event-stream' },
      body: JSON.stringify({ proxies }),
    })
    if (!answer.ok || !answer.body) throw new Error((await answer.json()).error)
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader()
    let left = ''
    for (let part = await reader.read(); !part.done; part = await reader.read()) {
      const events = (left + part.value).split('\n\n')
      left = events.pop() ?? ''
      for (const event of events) {
        const [first = '', second = ''] = event.split('\n')
        on(first.replace('event: ', ''), second.replace('data: ', ''))
      }
    }
  }
}

customElements.define('fbx-proxy-checks', ProxyChecks)
