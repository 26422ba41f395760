// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {ERC20} from "@openzeppelin/contracts/token/ERC20/ERC20.sol";

/// @notice A token with faults that can be switched on at any moment.
contract HostileToken is ERC20 {
    enum Fault {
        None,
        Reverts,
        ReturnsFalse,
        MovesAndReturnsFalse,
        TakesAFee,
        BurnsAllGas,
        ReturnsABomb,
        NeedsGas,
        Reenters
    }

    mapping(address => bool) public blocked;
    Fault public fault;
    address private _target;
    bytes private _call;
    bool public entered; // whether a call back into the target went through
    bool public tried;

    constructor() ERC20("Hostile", "HOST") {}

    function mint(address to, uint256 amount) external {
        _mint(to, amount);
    }

    function setBlocked(address account, bool is_) external {
        blocked[account] = is_;
    }

    function setFault(Fault f) external {
        fault = f;
    }

    function setReentry(address target, bytes calldata call) external {
        (fault, _target, _call, tried, entered) = (Fault.Reenters, target, call, false, false);
    }

    function transfer(address to, uint256 amount) public override returns (bool) {
        return _hostile(to) ? false : super.transfer(to, amount);
    }

    function transferFrom(address from, address to, uint256 amount) public override returns (bool) {
        if (fault == Fault.TakesAFee) {
            super.transferFrom(from, to, amount);
            _burn(to, 1);
            return true;
        }
        return _hostile(to) ? false : super.transferFrom(from, to, amount);
    }

    function _hostile(address to) private returns (bool) {
        require(!blocked[to], "blocked");
        if (fault == Fault.Reverts) revert("no");
        if (fault == Fault.ReturnsFalse) return true;
        if (fault == Fault.MovesAndReturnsFalse) {
            _transfer(msg.sender, to, 1);
            return true;
        }
        if (fault == Fault.BurnsAllGas) while (true) {}
        if (fault == Fault.ReturnsABomb) {
            assembly ("memory-safe") {
                revert(0, 1000000)
            }
        }
        if (fault == Fault.NeedsGas) require(gasleft() > 100_000, "too little gas");
        if (fault == Fault.Reenters && !tried) {
            tried = true;
            (entered,) = _target.call(_call);
        }
        return false;
    }
}

/// @notice A token of before the standard: its functions return nothing.
contract SilentToken {
    mapping(address => uint256) public balanceOf;
    mapping(address => mapping(address => uint256)) public allowance;

    function mint(address to, uint256 amount) external {
        balanceOf[to] += amount;
    }

    function approve(address spender, uint256 amount) external {
        allowance[msg.sender][spender] = amount;
    }

    function transfer(address to, uint256 amount) external {
        balanceOf[msg.sender] -= amount;
        balanceOf[to] += amount;
    }

    function transferFrom(address from, address to, uint256 amount) external {
        allowance[from][msg.sender] -= amount;
        balanceOf[from] -= amount;
        balanceOf[to] += amount;
    }
}
